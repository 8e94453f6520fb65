import { useView } from '../live.js'
import { Page } from '../parts/page.js'
import { useParams } from '../routes.js'
import { ChangeList } from './changes.js'
import { Counts } from './now/counts.js'
import { NextTicks, ProblemPanel, QueuePanel } from './now/overview-panels.js'
import { ProofPanel } from './now/proof.js'
import { isUnused, StartHere } from './now/start-here.js'
import { WaitPanel } from './now/waits.js'

export function Now() {
  const { namespace } = useParams<'now'>()
  const graph = useView('graph', { namespace })
  const overview = useView('overview', { namespace })
  const proof = useView('proof', {})
  if (isUnused(overview.data)) {
    return (
      <Page>
        <StartHere overview={overview} />
      </Page>
    )
  }
  return (
    <Page>
      <Counts namespace={namespace} overview={overview} graph={graph} />
      <ProblemPanel live={overview} trouble={overview.data?.trouble ?? []} />
      <WaitPanel graph={graph} />
      <ChangeList namespace={namespace} />
      <div class="side-by-side">
        <QueuePanel
          live={overview}
          queues={(overview.data?.queues ?? []).map((queue) => ({ ...queue, at: overview.at }))}
          count={overview.data?.counts.queues}
        />
        <NextTicks overview={overview} />
      </div>
      <ProofPanel proof={proof} />
    </Page>
  )
}
