import { defineJob } from 'holdfast'
import { type Random, randomFrom } from '../../test/property/random.ts'
import type { Fixture, Workload } from './fixture.ts'

/** The updates that a process made to a job, in order. An answer is null if its call failed, so that its outcome is unknown. */
export interface ChangedJob {
  readonly id: number
  readonly updates: readonly { readonly version: number; readonly answer: boolean | null }[]
}

/** All instances of the process share the numbers. */
let tags = 0

/**
 * Enqueues jobs with deadlines, changes their inputs and cancels them by a search, while workers claim them. The effect of each job contains
 * the version of its input. Few slots make some of the jobs late.
 */
export function changes({ holdfast, pool, sleep, write }: Fixture): Workload {
  const random = randomFrom(process.pid)
  const changed = defineJob('changed', {
    queue: 'changed',
    maxCrashes: 1_000,
    retry: { attempts: 1_000, backoff: 5, maxBackoff: 200 },
    async run({ version, ms }: { tag: string; version: number; ms: number }, { id, fence, tx }) {
      await pool.query(
        'insert into public.begun (id, claimed_at) select $1, claimed_at from holdfast.claim where fence = $2',
        [id, fence],
      )
      await tx.query("insert into public.effect (what, id, by) values ('changed', $1, $2)", [id, version])
      await sleep(ms)
      if (random.chance(0.2)) throw new Error('by chance')
    },
  })
  holdfast.jobs.work([changed], { concurrency: 2 })

  return {
    flows: 3,
    async step(random: Random) {
      const tag = `${process.pid}-${++tags}`
      const input = (version: number) => ({ tag, version, ms: random.below(60) })
      const delay = random.chance(0.5) ? random.below(300) : undefined
      const startBy = random.chance(0.5) ? (delay ?? 0) + 1 + random.below(300) : undefined
      const { id } = await holdfast.jobs.enqueue(changed, input(1), { delay, startBy, priority: random.below(3) - 1 })
      const updates: { version: number; answer: boolean | null }[] = []
      try {
        for (let version = 2; version < 5 && random.chance(0.6); version++) {
          await sleep(random.below(80))
          const options = random.chance(0.5) ? { delay: random.below(100) } : { priority: random.below(3) - 1 }
          updates.push({ version, answer: null })
          const answer = await holdfast.jobs.update(id, { definition: changed, input: input(version), ...options })
          updates[updates.length - 1] = { version, answer }
        }
        if (random.chance(0.2)) await holdfast.jobs.cancelMany({ kind: 'changed', search: `input.tag:${tag}` })
      } finally {
        write('changed', { id, updates } satisfies ChangedJob)
      }
      await sleep(random.below(50))
    },
  }
}
