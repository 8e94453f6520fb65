// A small file system for the server's data, which can be full: an ext4 image on a loop device. Only root can mount one, and not in every container.
import { execFileSync } from 'node:child_process'
import { chmodSync, closeSync, ftruncateSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export class Disk {
  readonly path: string
  readonly #directory = mkdtempSync(join(tmpdir(), 'holdfast-disk-'))
  readonly #filler: string
  /** Unmounts the file system if the run ends early. */
  readonly #onExit = () => this.unmount()

  /** Returns undefined if no file system can be mounted here. */
  static mount(megabytes: number): Disk | undefined {
    if (process.platform !== 'linux' || process.getuid?.() !== 0) return undefined
    const disk = new Disk()
    try {
      disk.#mount(megabytes)
      return disk
    } catch {
      disk.unmount()
      return undefined
    }
  }

  private constructor() {
    this.path = join(this.#directory, 'mounted')
    this.#filler = join(this.path, 'filler')
  }

  #mount(megabytes: number) {
    chmodSync(this.#directory, 0o755)
    const image = join(this.#directory, 'image')
    const file = openSync(image, 'w')
    ftruncateSync(file, megabytes * 2 ** 20)
    closeSync(file)
    mkdirSync(this.path)
    // Without reserved blocks, root and the server find the disk full at the same time.
    run('mkfs.ext4', '-q', '-m', '0', image)
    run('mount', '-o', 'loop', image, this.path)
    process.once('exit', this.#onExit)
    chmodSync(this.path, 0o777)
  }

  /** Occupies all free blocks, also those that were freed in the meantime. */
  fill(): void {
    for (let bytes = 2 ** 30; bytes >= 4_096; bytes /= 2) {
      // Each call extends the file, until not even one block is free.
      while (this.#extend(bytes)) {}
    }
  }

  free(): void {
    rmSync(this.#filler, { force: true })
  }

  unmount(): void {
    process.off('exit', this.#onExit)
    try {
      run('umount', '-l', this.path)
    } catch {
      // The file system was not mounted.
    }
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #extend(bytes: number): boolean {
    try {
      const size = Number(execFileSync('sh', ['-c', 'stat -c %s "$1" 2>/dev/null || echo 0', 'sh', this.#filler]))
      run('fallocate', '-o', String(size), '-l', String(bytes), this.#filler)
      return true
    } catch {
      return false
    }
  }
}

function run(program: string, ...args: string[]) {
  execFileSync(program, args, { stdio: 'ignore' })
}
