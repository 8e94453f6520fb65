import './mark.css'
import { shorten } from '../format.js'
import { markOf } from '../marks.js'
import { hrefOf } from '../routes.js'

interface InstanceMarkProps {
  readonly id: string
  /** Written beside the letter: the host and the process, or the id. Without it the letter stands alone. */
  readonly label?: string | undefined
  /** False where it stands inside of something that is pressed. */
  readonly link?: boolean
}

/** An instance: its letter on its colour, the same everywhere on every page. */
export function InstanceMark({ id, label, link = true }: InstanceMarkProps) {
  const { letter, colour } = markOf(id)
  const inside = (
    <>
      <span class={`mark-letter mark-${colour}`} aria-hidden={label !== undefined}>
        {letter}
      </span>
      {label !== undefined && <bdi>{shorten(label, 32)}</bdi>}
    </>
  )
  const title = `Instance ${letter}: ${id}`
  return link ? (
    <a class="mark" href={hrefOf('instances', { instance: id })} title={title} aria-label={label ? undefined : title}>
      {inside}
    </a>
  ) : (
    <span class="mark" title={title}>
      {inside}
    </span>
  )
}

/** Who has something: an instance, or a session that is not Holdfast's. */
interface Someone {
  readonly instance: string | null
  readonly host?: string | null
  readonly osPid?: number | null
  readonly application?: string | null
  readonly pid?: number | null
}

export function WhoIs({ who }: { readonly who: Someone | null | undefined }) {
  if (!who) return <span class="muted">nobody</span>
  if (who.instance !== null) {
    return <InstanceMark id={who.instance} label={who.host ? `${who.host}/${who.osPid ?? '?'}` : who.instance} />
  }
  const says = [who.application || 'a session', who.pid && `pid ${who.pid}`].filter(Boolean).join(', ')
  return <bdi title="Not an instance of Holdfast">{shorten(says, 32)}</bdi>
}
