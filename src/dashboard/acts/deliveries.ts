/** What may be done on the page of deliveries. */
export const deliveries = {}
