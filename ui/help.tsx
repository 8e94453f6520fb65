import { allShortcuts, type Shortcut, useCharacterKeys } from './keyboard.js'
import { Dialog } from './parts/dialog.js'

const groups: readonly Shortcut['group'][] = ['Pages', 'Everywhere', 'In a table', 'In a panel']
const mod = navigator.platform.startsWith('Mac') ? '⌘' : 'Ctrl'

export function Help({ onClose }: { readonly onClose: () => void }) {
  const shortcuts = allShortcuts()
  const [isOn, setOn] = useCharacterKeys()
  return (
    <Dialog title="Keyboard shortcuts" kind="wide" onClose={onClose}>
      <label>
        <input type="checkbox" checked={isOn} onChange={({ currentTarget }) => setOn(currentTarget.checked)} />{' '}
        Shortcuts without Ctrl or ⌘ are on
      </label>
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
                      {key
                        .replace('Mod', mod)
                        .split(/[ +]/)
                        .map((one) => (
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
