import type { EventName, Events } from '../base/index.js'
import { eventMeasurements, type Measure } from './instruments.js'

/** Measures what follows from the events of an instance, until what this returns is called. */
export function measureEvents(events: Events, measure: Measure): () => void {
  const stops = (Object.keys(eventMeasurements) as EventName[]).map((name) => listen(events, name, measure))
  return () => {
    for (const stop of stops) stop()
  }
}

function listen<Name extends EventName>(events: Events, name: Name, measure: Measure): () => void {
  const follow = eventMeasurements[name]!
  return events.on(name, (event) => follow(event, measure))
}
