import './theme.css'
import { render } from 'preact'
import { App } from './app.js'
import { applyTheme } from './theme.js'

applyTheme()

// Handles clicks on links, because the browser would resolve `#/jobs` against `<base href>` and might reload the page.
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
