/**
 * What ties a job to others, as it is written beside it: null for most jobs. Each kind of tie has a member here, a step in
 * job_admit (what must be so before the job may run), and a step in job_settle (what follows for others when it leaves).
 */
export type Ties = Readonly<Record<string, unknown>>
