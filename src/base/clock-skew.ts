/** A clock that is off by less is in step, for what people and code write by it. */
export const noticeableClockSkewMs = 2_000
/** One that is off by more is a risk. */
export const riskyClockSkewMs = 60_000
