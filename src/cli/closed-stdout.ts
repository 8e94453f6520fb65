let isIgnored = false

/** Ends this process when the reader has closed the pipe, as in `holdfast lock ls | head -1`. */
export function exitOnClosedStdout(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (isIgnored) return
    if (error.code === 'EPIPE') process.exit()
    throw error
  })
}

/** Keeps this process running when stdout cannot be written, for a command whose purpose is not its output. */
export function ignoreClosedStdout(): void {
  isIgnored = true
}
