import { useView } from '../live.js'
import { Page } from '../parts/page.js'
import { useParams } from '../routes.js'
import { Counts } from './now/counts.js'
import { NextTicks, Queues, TroubleList } from './now/overview-panels.js'
import { ProofPanel } from './now/proof.js'
import { WaitPanel } from './now/waits.js'

export function Now() {
  const { namespace } = useParams<'now'>()
  const graph = useView('graph', { namespace })
  const overview = useView('overview', { namespace })
  const proof = useView('proof', {})
  return (
    <Page>
      <Counts overview={overview} calls={graph.data?.calls} />
      <WaitPanel graph={graph} />
      <ProofPanel proof={proof} />
      <TroubleList overview={overview} />
      <div class="side-by-side">
        <Queues overview={overview} />
        <NextTicks overview={overview} />
      </div>
    </Page>
  )
}
