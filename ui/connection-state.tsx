import { now } from './clock.js'
import { type Connection, reconnect, useConnection } from './live.js'
import { State, type Tone } from './parts/state.js'
import { Elapsed } from './parts/time.js'

const labels: Readonly<Record<Connection['state'], readonly [word: string, tone: Tone]>> = {
  live: ['Live', 'good'],
  connecting: ['Connecting', 'quiet'],
  idle: ['Connecting', 'quiet'],
  lost: ['No connection', 'bad'],
  'database-unreachable': ['No database', 'bad'],
}

export function ConnectionState() {
  const connection = useConnection()
  const lost = connection.state === 'lost' ? connection : undefined
  const [word, tone] = labels[connection.state]
  return (
    <div class="connection row small">
      <span role="status">
        <State word={word} tone={tone} />
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
