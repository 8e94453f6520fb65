/** A clock that is off by less is in step, for what people and code write by it. */
export const clockNoticedMs = 2_000
/** One that is off by more is a risk. */
export const clockRiskyMs = 60_000
