/** What may be done on the page of limits. */
export const limits = {}
