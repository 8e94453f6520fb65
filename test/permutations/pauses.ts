// Places between the statements of PL/pgSQL functions at which a session stops until the test lets it continue. Each statement of a function takes a
// new snapshot, so another session's commit in between can matter.
import type { Session, World } from './world.js'

/** Class of the locks at which sessions stop, plus the number of the session. No lock of the package has it. */
const lockClass = 1_999_000_000
/** Maximum number of stops of one session in one run. It continues without stops afterwards. */
const maxPauses = 80

/** Number of the session, and of its next stop. A session without a number never stops. */
const pauseFunction = `
  create function public.pause() returns void language plpgsql as $pause$
  declare
    slot constant text := current_setting('pause.slot', true);
    number integer;
  begin
    if slot is null or slot = '' then
      return;
    end if;
    number := coalesce(nullif(current_setting('pause.number', true), ''), '0')::integer + 1;
    perform set_config('pause.number', number::text, false);
    if number <= ${maxPauses} then
      perform pg_advisory_lock_shared(${lockClass} + slot::integer, number);
      perform pg_advisory_unlock_shared(${lockClass} + slot::integer, number);
    end if;
  end
  $pause$`

/** Adds stops to these functions of the world's database. */
export async function addPauses(world: World, functions: readonly string[]): Promise<void> {
  await world.query(pauseFunction)
  for (const name of functions) {
    const [row] = await world.query<{ text: string }>(
      "select pg_get_functiondef(('holdfast.' || $1)::regproc) as text",
      [name],
    )
    const text = withPauses(row!.text)
    if (text === row!.text) throw new Error(`The function ${name} has no statement that could stop`)
    await world.observer.query(text)
  }
}

/** Closes the gates before a run. */
export async function closeGates(world: World, sessions: readonly Session[]): Promise<void> {
  await world.gate.query('select pg_advisory_unlock_all()')
  await world.gate.query(
    'select pg_advisory_lock($1::integer + slot, number) from generate_series(1, $2::integer) as slot, generate_series(1, $3::integer) as number',
    [lockClass, sessions.length, maxPauses],
  )
  for (const [at, session] of sessions.entries()) await session.pauseIn(at + 1)
}

/** Lets a session continue to its next stop. */
export async function openGate(world: World, session: Session): Promise<void> {
  const slot = world.sessions.indexOf(session) + 1
  await world.gate.query('select pg_advisory_unlock($1::integer, $2::integer)', [lockClass + slot, session.nextPause++])
  await world.rest()
}

/**
 * Adds a stop before each statement of the function that reads or writes something. The functions are laid out in the same way: a statement begins on its
 * own line and ends with a semicolon, `then` or `loop` at the end of a line.
 */
function withPauses(text: string): string {
  const lines = text.split('\n')
  const firstBegin = lines.findIndex((line) => line.trim() === 'begin')
  const stops = new Set<number>()
  let start: number | undefined
  for (let at = firstBegin + 1; at < lines.length; at++) {
    const line = lines[at]!.trim()
    if (line === '' || line.startsWith('--')) continue
    if (start === undefined) {
      if (/^(end|else|begin|exception|when)\b|^\$/.test(line)) continue
      start = at
    }
    const isHeader = /^(if|elsif|for|while|loop)\b/.test(lines[start]!.trim())
    if (!(isHeader ? /\b(then|loop)$/ : /;$/).test(line)) continue
    const statement = lines.slice(start, at + 1).join('\n')
    const reads = /\b(select|insert|update|delete|perform|with)\b|holdfast\./i.test(statement)
    if (reads && !/^(elsif|exit|continue)\b/.test(lines[start]!.trim())) stops.add(start)
    start = undefined
  }
  return lines.map((line, at) => (stops.has(at) ? `perform public.pause(); ${line}` : line)).join('\n')
}
