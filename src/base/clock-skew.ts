/** Clock skew below this value is ignored. */
export const noticeableClockSkewMs = 2_000
/** Clock skew above this value is reported as a risk. */
export const riskyClockSkewMs = 60_000
