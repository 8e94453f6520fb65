import { spawn } from 'node:child_process'

/** Opens a URL in the user's browser: in `BROWSER` if it is set, or else as the operating system does. */
export function openInBrowser(url: string): void {
  const { BROWSER } = process.env
  const command = BROWSER || (process.platform === 'darwin' ? 'open' : 'xdg-open')
  const browser = spawn(command, [url], { stdio: 'ignore', detached: true })
  // The URL is printed as well, so a machine without a browser needs no message.
  browser.on('error', () => {})
  browser.unref()
}
