// Cleans up after our process, even if it is killed with SIGKILL. A shell process holds one end of a pipe. When our process ends for any
// reason, the kernel closes the other end, and the shell starts the cleanup. The shell has its own session, so that Ctrl-C in a terminal
// does not reach it.
import { type ChildProcess, spawn } from 'node:child_process'
import { spawnAs } from './user.js'

/**
 * The shell script's arguments are the signals to send, one after the other, and then the directories to remove. Until the pipe closes, the
 * script reads the process id to watch from the pipe. Each line replaces the previous process id. An empty line means that there is no
 * process to watch. A process that has exited may remain a zombie, because a container's first process may not reap it.
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
   * If the data is kept, the watchdog first requests a fast shutdown, so that the next start needs no recovery. The shell runs as our user,
   * because the server's user may lack the privilege to remove the directory.
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
    shell.stdin!.on('error', () => {}) // The shell was killed. We continue without a watchdog.
    this.#keepProcessAlive(false)
  }

  watch(pid: number | undefined): void {
    this.#shell.stdin!.write(`${pid ?? ''}\n`)
  }

  /** Ends the shell and the process that the shell is still watching. */
  async close(): Promise<void> {
    this.#keepProcessAlive(true)
    this.#shell.stdin!.end()
    await this.#exited
  }

  /** Sets whether the event loop waits for the shell. If so, this process does not exit before the shell does. */
  #keepProcessAlive(hold: boolean): void {
    const method = hold ? 'ref' : 'unref'
    this.#shell[method]()
    ;(this.#shell.stdin as unknown as NodeJS.Timeout)[method]()
  }
}
