import './instance-mark.css'
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
interface Owner {
  readonly instance: string | null
  readonly host?: string | null
  readonly osPid?: number | null
  readonly application?: string | null
  readonly pid?: number | null
}

export function OwnerMark({ owner }: { readonly owner: Owner | null | undefined }) {
  if (!owner) return <span class="muted">nobody</span>
  if (owner.instance !== null) {
    return (
      <InstanceMark id={owner.instance} label={owner.host ? `${owner.host}/${owner.osPid ?? '?'}` : owner.instance} />
    )
  }
  const caption = [owner.application || 'a session', owner.pid && `pid ${owner.pid}`].filter(Boolean).join(', ')
  return <bdi title="Not an instance of Holdfast">{shorten(caption, 32)}</bdi>
}
