import { createInterface } from 'node:readline/promises'

/** Asks on the terminal. Anything but a yes is a no; so is the end of the input. */
export async function confirm(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('')))
    const answer = await Promise.race([terminal.question(`${question} [y/N] `), closed])
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    terminal.close()
  }
}
