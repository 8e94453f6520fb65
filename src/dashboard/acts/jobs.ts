/** What may be done on the page of jobs. */
export const jobs = {}
