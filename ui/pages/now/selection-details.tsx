import { Act } from '../../parts/confirm.js'
import { Name } from '../../parts/name.js'
import { Age } from '../../parts/time.js'
import { hrefOf } from '../../routes.js'
import { type ContendedName, type Holding, holdText, nameLabel, type Remedy, type WaitGraphData } from './labels.js'
import { ParticipantMark } from './participant-mark.js'

interface SelectionDetailsProps {
  readonly waits: WaitGraphData
  /** ID of a participant or name. */
  readonly id: string
  readonly at: string | undefined
  readonly onSelect: (id: string) => void
}

/** Details of the selected participant or name, and the actions that can resolve the wait, least disruptive first. */
export function SelectionDetails({ waits, id, at, onSelect }: SelectionDetailsProps) {
  const name = waits.names.find((contended) => contended.id === id)
  const holdings = waits.names.flatMap((one) =>
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
    <section class="selection stack tight wraps" aria-label="Selection">
      <h3>{name ? <Name text={nameLabel(name)} copy /> : <ParticipantMark waits={waits} id={id} />}</h3>
      {waiting.map(({ name: one, wait, blockers }) => (
        <p key={one.id}>
          Waits for{' '}
          <button type="button" class="link" onClick={() => onSelect(one.id)}>
            <Name text={nameLabel(one)} />
          </button>{' '}
          <Age ms={wait.forMs} from={at} />
          {wait.requests > 1 && `, in ${wait.requests} calls`}
          {blockers.length > 0 && ', which '}
          {blockers.slice(0, 3).map((blocker) => (
            <ParticipantMark key={blocker} waits={waits} id={blocker} />
          ))}
          {blockers.length > 3 && ` and ${blockers.length - 3} more`}
          {blockers.length > 0 && (blockers.length === 1 ? ' holds' : ' hold')}
          {wait.behind !== null && (
            <>
              , behind <ParticipantMark waits={waits} id={wait.behind} />
            </>
          )}
          .
        </p>
      ))}
      {holdings.map(({ name: one, holding }) => (
        <div key={`${one.id} ${holding.participant}`} class="stack dense">
          <p>
            {name ? <ParticipantMark waits={waits} id={holding.participant} /> : <Name text={nameLabel(one)} />}:{' '}
            {holdText(holding)}
            {holding.forMs !== null && (
              <>
                {' '}
                <Age ms={holding.forMs} from={at} />
              </>
            )}
            , {one.waiting} {one.waiting === 1 ? 'waits' : 'wait'}.
          </p>
          {holding.remedies.length > 0 ? (
            <ol class="ways stack dense" aria-label={`Actions for ${nameLabel(one)}, least disruptive first`}>
              {holding.remedies.map((remedy) => (
                <li key={remedy.action}>
                  <RemedyAction remedy={remedy} name={one} />
                  <span class="muted small">{remedyTexts[remedy.action]}</span>
                </li>
              ))}
            </ol>
          ) : (
            <p class="muted small">{noRemedyText(holding)}</p>
          )}
        </div>
      ))}
    </section>
  )
}

/** Short descriptions of the actions. The confirmation dialog shows the exact consequences. */
const remedyTexts: Readonly<Record<Remedy['action'], string>> = {
  release: 'Asks the holder to release the name. The holder decides when its work can stop, so no work is lost.',
  expire: "Frees the name for the next waiting call. The database then rejects the previous holder's guarded writes.",
  reset: 'Frees all permits for the waiting calls. The holders are notified.',
  cancel: 'Asks the handler to stop. The job will not run again.',
  retry: 'Runs the job again. Other jobs are waiting for this job to succeed.',
  inspect: 'The job is not running yet. Open the job to see the reason.',
  break: 'Terminates the session. The session loses all its names immediately, and the waiting calls acquire them.',
}

function noRemedyText({ how }: Holding): string {
  return how === 'rate'
    ? 'The wait ends when the rate limit allows the next call.'
    : 'No action is available for this wait.'
}

function RemedyAction({ remedy, name }: { readonly remedy: Remedy; readonly name: ContendedName }) {
  const subject = nameLabel(name)
  switch (remedy.action) {
    case 'release':
      return <Act act="release-name" params={{ key: remedy.key }} label="Ask to release" subject={subject} />
    case 'expire':
      return <Act act="expire-lease" params={{ key: remedy.key }} label="Expire the lease" subject={subject} />
    case 'break':
      return <Act act="break-lock" params={{ key: remedy.key }} label="End the session" subject={subject} />
    case 'reset':
      return (
        <Act
          act="reset-limit"
          params={{ namespace: remedy.namespace, name: remedy.name }}
          label="Reset"
          subject={subject}
        />
      )
    case 'cancel':
      return <Act act="cancel-job" params={{ id: remedy.job }} label="Cancel the job" subject={subject} />
    case 'retry':
      return <Act act="retry-job" params={{ id: remedy.job }} label="Retry the job" subject={subject} />
    case 'inspect':
      return <a href={hrefOf('jobs', { id: String(remedy.job) })}>Job {remedy.job}</a>
  }
}
