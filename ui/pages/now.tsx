import { useView } from '../live.js'
import { Page } from '../parts/page.js'
import { useParams } from '../routes.js'
import { NextTicks, Queues, TroubleList } from './now/glances.js'
import { ProofLine } from './now/proof.js'
import { Strip } from './now/strip.js'
import { WhoWaits } from './now/waits.js'

/** The fleet at a glance: who waits for whom, what went wrong, what comes next, and whether the promises hold. */
export function Now() {
  const { namespace } = useParams<'now'>()
  const graph = useView('graph', { namespace })
  const overview = useView('overview', { namespace })
  const proof = useView('proof', {})
  return (
    <Page>
      <Strip overview={overview} {...(graph.data && { calls: graph.data.calls })} />
      <WhoWaits graph={graph} />
      <ProofLine proof={proof} />
      <TroubleList overview={overview} />
      <div class="beside">
        <Queues overview={overview} />
        <NextTicks overview={overview} />
      </div>
    </Page>
  )
}
