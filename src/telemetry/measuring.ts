import type { EventName, Events } from '../base/index.js'
import { follows, type Measure } from './instruments.js'

/** Measures what follows from the events of an instance, until what this returns is called. */
export function measureEvents(events: Events, measure: Measure): () => void {
  const stops = (Object.keys(follows) as EventName[]).map((name) => listen(events, name, measure))
  return () => {
    for (const stop of stops) stop()
  }
}

function listen<Name extends EventName>(events: Events, name: Name, measure: Measure): () => void {
  const follow = follows[name]!
  return events.on(name, (event) => follow(event, measure))
}
