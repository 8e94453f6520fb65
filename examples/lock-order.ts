// Two instances acquire two names in opposite orders. Each acquires its second name while it holds its first name, so the instances deadlock.
// PostgreSQL cannot detect this deadlock, because each instance holds and waits on different sessions. Holdfast detects and reports the deadlock. If
// one call acquires both names, a deadlock is not possible.
import { DeadlockError, Holdfast } from 'holdfast'
import { withDatabase } from './database.ts'

await withDatabase(async (url) => {
  const one = await Holdfast.open({ url })
  const two = await Holdfast.open({ url })

  let bothInside = 0
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  const nested = (holdfast: Holdfast, outer: string, inner: string) =>
    holdfast.locks.with(outer, async () => {
      if (++bothInside === 2) open()
      await gate
      return holdfast.locks.with(inner, () => 'done')
    })
  const results = await Promise.allSettled([
    nested(one, 'account:1', 'account:2'),
    nested(two, 'account:2', 'account:1'),
  ])
  const errors = results.map((result) => (result.status === 'rejected' ? result.reason : undefined))
  const failed = errors.filter((error) => error instanceof DeadlockError)
  console.log(`nested in opposite orders: ${failed.length} deadlock, ${2 - failed.length} done`)
  console.log(
    `names in the report: ${failed[0]?.cycle
      .map((side) => /"(.*)"/.exec(side)?.[1])
      .sort()
      .join(', ')}`,
  )

  const together = (holdfast: Holdfast, ...names: string[]) => holdfast.locks.with(names, () => 'done')
  const many = Array.from({ length: 100 }, (_, turn) =>
    turn % 2 ? together(one, 'account:1', 'account:2') : together(two, 'account:2', 'account:1'),
  )
  console.log(`100 calls with both names: ${(await Promise.all(many)).length} done`)

  await one.close()
  await two.close()
})

// prints:
// nested in opposite orders: 1 deadlock, 1 done
// names in the report: account:1, account:2
// 100 calls with both names: 100 done
