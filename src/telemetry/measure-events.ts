import type { EventName, Events } from '../base/index.js'
import { eventMeasurements, type Measure } from './instruments.js'

/** Records the measurements of an instance's events. Returns a function that stops the recording. */
export function measureEvents(events: Events, measure: Measure): () => void {
  const stops = (Object.keys(eventMeasurements) as EventName[]).map((name) => listen(events, name, measure))
  return () => {
    for (const stop of stops) stop()
  }
}

function listen<Name extends EventName>(events: Events, name: Name, measure: Measure): () => void {
  const measureEvent = eventMeasurements[name]!
  return events.on(name, (event) => measureEvent(event, measure))
}
