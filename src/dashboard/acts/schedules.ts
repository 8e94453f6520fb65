/** What may be done on the page of schedules. */
export const schedules = {}
