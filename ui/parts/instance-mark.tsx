import './instance-mark.css'
import { shorten } from '../format.js'
import { markOf } from '../marks.js'
import { hrefOf } from '../routes.js'
import { None } from './time.js'

interface InstanceMarkProps {
  readonly id: string
  /** Name of the instance. If the name is no longer known, the mark shows the ID. */
  readonly name: string | null | undefined
  /** Whether the mark shows only the letter. The tooltip shows the name. */
  readonly short?: boolean
  /** Whether the mark is a link. Must be false inside another control. The default is true. */
  readonly link?: boolean
}

/** Mark of an instance, which shows the instance's letter on the instance's colour. */
export function InstanceMark({ id, name, short = false, link = true }: InstanceMarkProps) {
  const { letter, style } = markOf(id, name)
  const inside = (
    <>
      <span class="mark-letter" style={style} aria-hidden={!short}>
        {letter}
      </span>
      {!short && <bdi>{shorten(name ?? id, 26)}</bdi>}
    </>
  )
  const title = `Instance ${name ? `${name}, ID ${id}` : id}`
  return link ? (
    <a
      class="mark inline"
      href={hrefOf('instances', { instance: id })}
      title={title}
      aria-label={short ? title : undefined}
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
  readonly instanceName: string | null
  readonly application?: string | null
  readonly pid?: number | null
}

interface OwnerMarkProps {
  readonly owner: Owner | null | undefined
  /** Whether the mark is a link. Must be false in a row that opens its own details. The default is true. */
  readonly link?: boolean
}

/** Shows a holder. An instance is shown as its mark. */
export function OwnerMark({ owner, link = true }: OwnerMarkProps) {
  if (!owner) return <None />
  if (owner.instance !== null) return <InstanceMark id={owner.instance} name={owner.instanceName} link={link} />
  const caption = `${owner.application || 'unknown'} session ${owner.pid ?? ''}`
  return <bdi title="Not a Holdfast instance">{shorten(caption, 32)}</bdi>
}
