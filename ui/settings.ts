// The visitor's choices, which the browser stores.

/** Returns a stored choice. Undefined if there is none, or if the browser allows no storage. */
export function readSetting(name: string): string | undefined {
  try {
    return localStorage.getItem(`holdfast.${name}`) ?? undefined
  } catch {
    return undefined
  }
}

/** Stores a choice. If the browser allows no storage, the choice is lost when the page is reloaded. */
export function writeSetting(name: string, value: string): void {
  try {
    localStorage.setItem(`holdfast.${name}`, value)
  } catch {
    // The choice applies until the page is reloaded.
  }
}
