/** Clock skew below this is ignored. */
export const noticeableClockSkewMs = 2_000
/** Clock skew above this is reported as a risk. */
export const riskyClockSkewMs = 60_000
