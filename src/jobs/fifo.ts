/** Maximum number of empty slots that removed items leave in the array. If there are more, the slots are deleted. */
const maxRemoved = 4_000

/** First-in, first-out list. Adding and removing an item takes constant time. */
export class Fifo<Item> {
  readonly #items: (Item | undefined)[] = []
  /** Index of the first item. */
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: Item): void {
    this.#items.push(item)
  }

  /** Removes and returns the first item. Returns undefined if the list is empty. */
  shift(): Item | undefined {
    if (this.length === 0) return undefined
    const item = this.#items[this.#head]
    this.#items[this.#head++] = undefined
    if (this.length === 0 || this.#head > maxRemoved) {
      this.#items.splice(0, this.#head)
      this.#head = 0
    }
    return item
  }

  /** Removes and returns all items. */
  clear(): Item[] {
    const items = this.#items.slice(this.#head) as Item[]
    this.#items.length = 0
    this.#head = 0
    return items
  }
}
