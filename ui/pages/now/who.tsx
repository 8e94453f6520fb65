import { InstanceMark } from '../../parts/mark.js'
import { Name } from '../../parts/name.js'
import { type Waits, whoIs } from './words.js'

/** A participant, wherever one is named. */
export function Who({ waits, id }: { readonly waits: Waits; readonly id: string }) {
  const participant = waits.participants.find((one) => one.id === id)
  if (!participant) return <bdi>{id}</bdi>
  const { instance } = participant
  return instance === null ? (
    <Name text={whoIs(participant)} />
  ) : (
    <InstanceMark id={instance} label={whoIs(participant)} />
  )
}
