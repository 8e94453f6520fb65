import { InstanceMark } from '../../parts/instance-mark.js'
import { Name } from '../../parts/name.js'
import { participantLabel, type WaitGraphData } from './labels.js'

export function ParticipantMark({ waits, id }: { readonly waits: WaitGraphData; readonly id: string }) {
  const participant = waits.participants.find((one) => one.id === id)
  if (!participant) return <bdi>{id}</bdi>
  const { instance, instanceName } = participant
  return instance === null ? (
    <Name text={participantLabel(participant)} />
  ) : (
    <InstanceMark id={instance} name={instanceName} />
  )
}
