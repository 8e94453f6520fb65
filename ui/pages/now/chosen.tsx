import { Act } from '../../parts/confirm.js'
import { Name } from '../../parts/name.js'
import { Span } from '../../parts/time.js'
import { hrefOf } from '../../routes.js'
import { Who } from './who.js'
import { type DrawnName, type Holding, howHeld, type Waits, type WayOut, whatIs } from './words.js'

interface ChosenProps {
  readonly waits: Waits
  /** Of a participant, or of a name. */
  readonly id: string
  readonly at: string | undefined
  readonly onChoose: (id: string) => void
}

/** What is known of the one that was chosen, and how to get it out of the way: the mildest first. */
export function Chosen({ waits, id, at, onChoose }: ChosenProps) {
  const name = waits.names.find((one) => one.id === id)
  const having = waits.names.flatMap((one) =>
    one.holders
      .filter(({ participant }) => (name ? one.id === id : participant === id))
      .map((holding) => ({ name: one, holding })),
  )
  const waiting = waits.names.flatMap((one) =>
    one.waits
      .filter(({ participant }) => participant === id)
      .map((wait) => ({ name: one, wait, blockers: one.holders.map(({ participant }) => participant) })),
  )
  return (
    <section class="chosen" aria-label="What is chosen">
      <h3>{name ? <Name text={whatIs(name)} copy /> : <Who waits={waits} id={id} />}</h3>
      {waiting.map(({ name: one, wait, blockers }) => (
        <p key={one.id}>
          Waits for{' '}
          <button type="button" class="link" onClick={() => onChoose(one.id)}>
            <Name text={whatIs(one)} />
          </button>{' '}
          <Span ms={wait.forMs} from={at} />
          {wait.requests > 1 && `, in ${wait.requests} calls`}
          {blockers.length > 0 && ', which '}
          {blockers.slice(0, 3).map((blocker) => (
            <Who key={blocker} waits={waits} id={blocker} />
          ))}
          {blockers.length > 3 && ` and ${blockers.length - 3} more`}
          {blockers.length > 0 && (blockers.length === 1 ? ' has' : ' have')}
          {wait.behind !== null && (
            <>
              , behind <Who waits={waits} id={wait.behind} />
            </>
          )}
          .
        </p>
      ))}
      {having.map(({ name: one, holding }) => (
        <div key={`${one.id} ${holding.participant}`} class="chosen-holding">
          <p>
            {name ? <Who waits={waits} id={holding.participant} /> : <Name text={whatIs(one)} />}: {howHeld(holding)}
            {holding.forMs !== null && (
              <>
                {' '}
                <Span ms={holding.forMs} from={at} />
              </>
            )}
            , {one.waiting} {one.waiting === 1 ? 'waits' : 'wait'}.
          </p>
          {holding.ways.length > 0 ? (
            <ol class="ways" aria-label={`Ways out for ${whatIs(one)}, the mildest first`}>
              {holding.ways.map((way) => (
                <li key={way.does}>
                  <Way way={way} name={one} />
                  <span class="muted small">{consequences[way.does]}</span>
                </li>
              ))}
            </ol>
          ) : (
            <p class="muted small">{helpless(holding)}</p>
          )}
        </div>
      ))}
    </section>
  )
}

/** In short; what exactly will happen is said before it does. */
const consequences: Readonly<Record<WayOut['does'], string>> = {
  ask: 'The holder decides itself when its work can stop. Nothing is lost.',
  expire: 'Free at once, and whoever waits gets it. Guarded writes of the holder are refused from then on.',
  reset: 'All its permits are free at once, and go to whoever waits. The holders are told.',
  cancel: 'Its handler is told to stop. It does not run again.',
  retry: 'It has not come to a good end, and is waited for until it does.',
  look: 'It does not run yet: it tells itself what it waits for.',
  break: 'Ends the session: all that it holds is lost at once, and goes to whoever waits.',
}

function helpless({ how }: Holding): string {
  return how === 'rate' ? 'Only time helps.' : 'Nothing can be done about it from here.'
}

function Way({ way, name }: { readonly way: WayOut; readonly name: DrawnName }) {
  const of = whatIs(name)
  switch (way.does) {
    case 'ask':
      return <Act act="release-name" params={{ key: way.key }} label="Ask to release" of={of} />
    case 'expire':
      return <Act act="expire-lease" params={{ key: way.key }} label="Expire the lease" of={of} />
    case 'break':
      return <Act act="break-lock" params={{ key: way.key }} label="End the session" of={of} />
    case 'reset':
      return <Act act="reset-limit" params={{ namespace: way.namespace, name: way.name }} label="Reset" of={of} />
    case 'cancel':
      return <Act act="cancel-job" params={{ id: way.job }} label="Cancel the job" of={of} />
    case 'retry':
      return <Act act="retry-job" params={{ id: way.job }} label="Retry the job" of={of} />
    case 'look':
      return <a href={hrefOf('jobs', { id: String(way.job) })}>Job {way.job}</a>
  }
}
