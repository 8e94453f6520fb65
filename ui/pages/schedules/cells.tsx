import { InstanceMark } from '../../parts/instance-mark.js'
import { State } from '../../parts/state.js'
import { None } from '../../parts/time.js'

interface LastRunProps {
  readonly last: {
    readonly tick: string
    readonly state: string
    readonly instance: string | null
    readonly instanceName: string | null
  } | null
}

export function LastRun({ last }: LastRunProps) {
  if (!last) return <None text="none yet" />
  return (
    <span class="row facts-line" title={`Tick ${last.tick}`}>
      <State word={last.state} />
      {last.instance && <InstanceMark id={last.instance} name={last.instanceName} short link={false} />}
    </span>
  )
}

const tones: Readonly<Record<string, 'bad' | 'busy' | 'good'>> = { orphan: 'bad', running: 'busy', stored: 'good' }

/** A schedule's state labels. A schedule without an unusual state is shown as active. */
export function ScheduleStates({ states }: { readonly states: readonly (string | false | null)[] }) {
  const words = states.filter((word) => typeof word === 'string')
  if (words.length === 0) return <State word="active" tone="good" />
  return (
    <span class="row facts-line">
      {words.map((word) => (
        <State key={word} word={word} tone={tones[word] ?? 'warn'} />
      ))}
    </span>
  )
}
