// Tests that a single caller needs one short statement per call, however the database decides.
import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { databaseUrl, open } from '../setup/instances.js'

test('a permit costs two statements and a rate decision one, whether they are allowed or refused', async () => {
  const pool = new pg.Pool({ connectionString: await databaseUrl() })
  onTestFinished(() => pool.end())
  const { limits } = await open({ pool })
  const sent = vi.spyOn(pool, 'query')
  const statements = () => {
    const texts = sent.mock.calls.map(([query]) => (query as unknown as { text: string }).text)
    sent.mockClear()
    return texts.map((text) => /holdfast\.(\w+)\(/.exec(text)?.[1])
  }
  // The first call creates the entity's row, so the general function decides it.
  for (let call = 0; call < 2; call++) {
    const permit = await limits.acquire('x', { max: 1 })
    expect(statements()).toEqual(['limit_decide_one'])
    expect(await limits.tryAcquire('x', { max: 1 })).toBeNull()
    expect(statements()).toEqual(['limit_decide_one'])
    await permit.release()
    expect(statements()).toEqual(['limit_decide_one'])
  }
  for (const allowed of [true, true, false]) {
    expect(await limits.consume('x', { rate: '2/d' })).toMatchObject({ allowed })
    expect(statements()).toEqual(['rate_decide_one'])
  }
})
