import { allShortcuts, type Shortcut } from './keyboard.js'
import { Dialog } from './parts/dialog.js'

const groups: readonly Shortcut['group'][] = ['Pages', 'Everywhere', 'In a panel', 'In a table']

export function Help({ onClose }: { readonly onClose: () => void }) {
  const shortcuts = allShortcuts()
  return (
    <Dialog title="Keyboard shortcuts" kind="wide" onClose={onClose}>
      <div class="help">
        {groups.map((group) => {
          const members = shortcuts.filter((one) => one.group === group)
          if (members.length === 0) return null
          return (
            <section key={group}>
              <h3>{group}</h3>
              <dl>
                {members.map(({ key, text }) => (
                  <div key={key}>
                    <dt>
                      {key.split(' ').map((one) => (
                        <kbd key={one}>{one}</kbd>
                      ))}
                    </dt>
                    <dd>{text}</dd>
                  </div>
                ))}
              </dl>
            </section>
          )
        })}
      </div>
    </Dialog>
  )
}
