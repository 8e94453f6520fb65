import { now } from './clock.js'
import { reconnect, useConnection } from './live.js'
import { Shape } from './parts/state.js'
import { Elapsed } from './parts/time.js'

/** Whether what one sees is the present. */
export function ConnectionState() {
  const connection = useConnection()
  const lost = connection.state === 'lost' ? connection : undefined
  return (
    <div class="connection">
      <span role="status">
        {lost ? (
          <span class="state bad">
            <Shape tone="bad" /> No connection
          </span>
        ) : connection.state === 'database-unreachable' ? (
          <span class="state bad">
            <Shape tone="bad" /> No database
          </span>
        ) : connection.state === 'live' ? (
          <span class="state good">
            <Shape tone="good" /> Live
          </span>
        ) : (
          <span class="state quiet">
            <Shape tone="wait" /> Connecting
          </span>
        )}
      </span>
      {lost && (
        <>
          <span class="muted lost-since">
            for <Elapsed at={new Date(now() - (performance.now() - lost.since)).toISOString()} />
          </span>
          <button type="button" class="button" title={lost.failure.message} onClick={reconnect}>
            Try now
          </button>
        </>
      )}
    </div>
  )
}
