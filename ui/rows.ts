// Moves the focus between the rows of the page's tables, and to the actions of a row. Works for all tables, because it
// only reads the document.

/** Label of the table that each page is about. The first table is used if the page has no such table. */
const mainTables = ['Databases', 'Problems', 'Names', 'Schedules', 'Jobs', 'Deliveries', 'Limits', 'Instances']

const rowSelector = ':is(tbody > tr, .fact-rows > li)'

function openDetails(): Element | undefined {
  return [...document.querySelectorAll('dialog.side[open]')].at(-1)
}

/** Returns the page's tables, or the tables of the open details. */
function bodies(): Element[] {
  const within = openDetails() ?? document.querySelector('#content')!
  return [...within.querySelectorAll(':is(tbody, .fact-rows)')].filter(({ children }) => children.length > 0)
}

function labelOf(body: Element): string {
  return body.closest('[aria-label]')?.getAttribute('aria-label') ?? ''
}

function focusRow(row: Element | undefined): void {
  const target = row?.querySelector<HTMLElement>(':scope .fact-open') ?? row
  if (!(target instanceof HTMLElement)) return
  // A row without details can receive the focus only here. The key for actions needs the focus to find the row.
  if (!target.hasAttribute('tabindex') && target === row) target.tabIndex = -1
  target.focus()
}

/** Focuses the next or the previous row. With open details, opens the details of that row instead. */
export function moveRow(step: 1 | -1): void {
  const row = document.activeElement?.closest(rowSelector)
  if (!row && openDetails()) {
    const opened = document.querySelector('#content [data-opened]:not(dialog *)')
    const next = step === 1 ? opened?.nextElementSibling : opened?.previousElementSibling
    const target = next?.querySelector<HTMLElement>('.fact-open') ?? next
    if (target instanceof HTMLElement) target.click()
    return
  }
  const found = bodies()
  const main = found.find((body) => mainTables.includes(labelOf(body))) ?? found[0]
  const next = row ? (step === 1 ? row.nextElementSibling : row.previousElementSibling) : main?.firstElementChild
  focusRow(next ?? undefined)
}

/** Focuses the first row of the next or the previous table. */
export function moveTable(step: 1 | -1): void {
  const found = bodies()
  const now = found.findIndex((body) => body.contains(document.activeElement))
  const to = now < 0 ? (step === 1 ? 0 : found.length - 1) : now + step
  focusRow(found[to]?.firstElementChild ?? undefined)
}

/** Focuses the first action of the focused row or of the open details. Repeated presses continue with the next action. */
export function focusAction(): void {
  const focused = document.activeElement
  const row = focused?.closest(rowSelector)
  const actionsOf = (within: Element | null | undefined) => [
    ...(within?.querySelectorAll<HTMLElement>('[aria-haspopup="dialog"]') ?? []),
  ]
  const all = [row, openDetails(), document.querySelector('#content')].map(actionsOf).find(({ length }) => length > 0)
  all?.[(all.indexOf(focused as HTMLElement) + 1) % all.length]?.focus()
}

// Enter follows the first link of a row that has no details of its own.
addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.defaultPrevented) return
  if (event.target instanceof Element && event.target.matches(rowSelector))
    event.target.querySelector<HTMLElement>('a')?.click()
})
