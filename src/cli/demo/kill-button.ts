import type { DashboardExtension } from '../dashboard/serve.js'

/**
 * Adds a bar with the button "Kill a process now" to the dashboard's page. Only the demo's server has the bar, its script
 * and its route.
 */
export function killButton(killOne: () => Promise<string | undefined>): DashboardExtension {
  return {
    script,
    async act() {
      return (await killOne()) ?? 'Too few processes are running. Wait until the replacement has started.'
    },
  }
}

const script = `
const bar = document.createElement('aside')
bar.setAttribute('aria-label', 'Demo')
Object.assign(bar.style, {
  display: 'flex', flexWrap: 'wrap', gap: '8px 12px', alignItems: 'center', padding: '8px 16px',
  background: 'var(--warn-ground)', color: 'var(--text)', borderBottom: '1px solid var(--line)',
  font: '0.875rem/1.4 var(--sans)',
})
const button = document.createElement('button')
button.type = 'button'
button.className = 'button dangerous'
button.textContent = 'Kill a process now'
const said = document.createElement('span')
said.setAttribute('role', 'status')
said.style.flex = '1 1 20rem'
said.textContent = 'Demo: runs kill -9 on the process that has the most work. Other processes then continue its work.'
button.addEventListener('click', async () => {
  button.disabled = true
  said.textContent = 'Killed. Waiting until other processes continue its work …'
  try {
    const response = await fetch('/demo/kill', { method: 'POST', headers: { 'x-holdfast-demo': '1' } })
    said.textContent = response.ok ? await response.text() : 'Refused: ' + response.status
  } catch {
    said.textContent = 'The demo has ended.'
  }
  button.disabled = false
})
bar.append(button, said)
document.body.prepend(bar)
`
