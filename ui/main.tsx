import './theme.css'
import { render } from 'preact'
import { App } from './app.js'
import { applyTheme } from './theme.js'

applyTheme()

// Beside `<base href>` the browser takes `#/jobs` for an address below the base, and might load the page anew.
addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return
  const link = event.target instanceof Element ? event.target.closest('a') : null
  const href = link?.getAttribute('href')
  if (!href?.startsWith('#')) return
  event.preventDefault()
  location.hash = href
})

render(<App />, document.getElementById('app')!)
