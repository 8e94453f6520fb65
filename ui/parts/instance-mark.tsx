import './instance-mark.css'
import { shorten } from '../format.js'
import { markOf } from '../marks.js'
import { hrefOf } from '../routes.js'
import { None } from './time.js'

interface InstanceMarkProps {
  readonly id: string
  /** Text next to the letter, which is the host and process, or the instance's ID. */
  readonly label?: string | undefined
  /** Whether the mark is a link. Must be false inside another control. The default is true. */
  readonly link?: boolean
}

/** Mark of an instance, which shows the instance's letter on the instance's colour. */
export function InstanceMark({ id, label, link = true }: InstanceMarkProps) {
  const { letter, style } = markOf(id)
  const inside = (
    <>
      <span class="mark-letter" style={style} aria-hidden={label !== undefined}>
        {letter}
      </span>
      {label !== undefined && <bdi>{shorten(label, 32)}</bdi>}
    </>
  )
  const title = `Instance ${letter}: ${id}`
  return link ? (
    <a
      class="mark inline"
      href={hrefOf('instances', { instance: id })}
      title={title}
      aria-label={label ? undefined : title}
    >
      {inside}
    </a>
  ) : (
    <span class="mark inline" title={title}>
      {inside}
    </span>
  )
}

/** Holder, which is an instance or another program's session. */
export interface Owner {
  readonly instance: string | null
  readonly host?: string | null
  readonly osPid?: number | null
  readonly application?: string | null
  readonly pid?: number | null
}

/** Shows a holder. An instance is shown as its mark. */
export function OwnerMark({ owner }: { readonly owner: Owner | null | undefined }) {
  if (!owner) return <None />
  if (owner.instance !== null) {
    return (
      <InstanceMark id={owner.instance} label={owner.host ? `${owner.host}/${owner.osPid ?? '?'}` : owner.instance} />
    )
  }
  const caption = [owner.application || 'a session', owner.pid && `pid ${owner.pid}`].filter(Boolean).join(', ')
  return <bdi title="Not a Holdfast instance">{shorten(caption, 32)}</bdi>
}
