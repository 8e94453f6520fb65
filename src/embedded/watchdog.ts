// Nothing in a process can run after SIGKILL, so someone else must clean up. A shell holds the other end of a pipe from us;
// the kernel closes our end however we end. It is in its own session, so that Ctrl-C in a terminal does not reach it.
import { type ChildProcess, spawn } from 'node:child_process'
import { spawnAs } from './user.js'

/**
 * Takes the signals to try, one after the other, then the directories to remove. Reads which process to watch, a line each
 * time it changes (an empty line: none), until the pipe closes. A process that has ended may stay a zombie for long: a
 * container's first process inherits it, and may not care.
 */
const script = `
pid=
while read -r line; do pid=$line; done
is_zombie() { case $(ps -o stat= -p "$pid" 2>/dev/null) in Z*) ;; *) false ;; esac; }
is_gone() { [ -z "$pid" ] || ! kill -0 "$pid" 2>/dev/null || is_zombie; }
signals=$1
shift
for signal in $signals; do
  is_gone && break
  kill -s "$signal" "$pid" 2>/dev/null
  tries=0
  until is_gone || [ $tries -ge 200 ]; do tries=$((tries + 1)); sleep 0.05; done
done
tries=0
until [ $# -eq 0 ] || rm -rf -- "$@" || [ $tries -ge 50 ]; do tries=$((tries + 1)); sleep 0.1; done
`

export class Watchdog {
  readonly #shell: ChildProcess
  readonly #exited: Promise<void>

  /**
   * Data that is kept gets a proper shutdown first, so that the next start need not recover. It runs as ourselves: the
   * server's user may have no right to remove its directory from the one that it stands in.
   */
  constructor(data: { path: string; temporary: boolean; removable: string[] }) {
    const signals = data.temporary ? 'QUIT KILL' : 'INT QUIT KILL'
    const shell = spawn('sh', ['-c', script, `holdfast-watchdog ${data.path}`, signals, ...data.removable], {
      ...spawnAs(undefined),
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#shell = shell
    this.#exited = new Promise((resolve) => shell.once('exit', () => resolve()).once('error', () => resolve()))
    shell.stdin!.on('error', () => {}) // Someone killed it. We go on, unwatched.
    this.#keepProcessAlive(false)
  }

  watch(pid: number | undefined): void {
    this.#shell.stdin!.write(`${pid ?? ''}\n`)
  }

  /** Ends it, together with what it still watches. */
  async close(): Promise<void> {
    this.#keepProcessAlive(true)
    this.#shell.stdin!.end()
    await this.#exited
  }

  /** Whether it keeps our process from ending by itself. */
  #keepProcessAlive(hold: boolean): void {
    const method = hold ? 'ref' : 'unref'
    this.#shell[method]()
    ;(this.#shell.stdin as unknown as NodeJS.Timeout)[method]()
  }
}
