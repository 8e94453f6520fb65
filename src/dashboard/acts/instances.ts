/** What may be done on the page of instances. */
export const instances = {}
