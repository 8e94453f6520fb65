/**
 * Planner settings for all functions. Without these settings, PostgreSQL would plan for the tables as they were at the
 * last ANALYZE. Holdfast's tables grow from zero to millions of rows and shrink again within minutes, so such a plan is
 * usually wrong. schema-rooms.ts applies the settings. A test checks that there are no planner settings elsewhere.
 */
const traits = {
  /**
   * JIT compilation takes 100 times as long as execution. Before PostgreSQL 18, a disabled scan type raises the estimated cost enough to
   * start JIT.
   */
  'not compiled': ['jit = off'],
  /** A new plan for each array of parameters would take longer than the execution of the statement. */
  'one plan': ['plan_cache_mode = force_generic_plan'],
  /** The table may be empty when PostgreSQL makes the plan, and huge when the plan runs. */
  'by index': ['enable_seqscan = off'],
  /** The statement needs only a few rows, however large the table is. A nested loop over the index reads only these rows. */
  'few rows': ['enable_hashjoin = off', 'enable_mergejoin = off'],
  /** A bitmap scan reads all matching rows before it returns the first row, even if a limit requires only a few rows. */
  'stops early': ['enable_bitmapscan = off'],
  /** The index returns the rows in order. A sort would read the whole queue first. */
  'in index order': ['enable_sort = off'],
  /** The statement joins many rows. A nested loop would search the index again for each row. */
  'large batch': ['enable_nestloop = off'],
  /**
   * If nested loops, bitmap scans and merge joins are disabled, PostgreSQL uses a hash join over one index scan. Hash joins are enabled
   * explicitly, because the calling function may have disabled them.
   */
  'by hash': ['enable_mergejoin = off', 'enable_hashjoin = on'],
} as const

type Trait = keyof typeof traits

/** Each function's settings. A function that is not listed runs with the session's settings. */
const profiles: readonly { readonly traits: readonly Trait[]; readonly functions: readonly string[] }[] = [
  {
    traits: ['one plan'],
    functions: ['is_leased', 'acquire_leases', 'release_leases'],
  },
  {
    traits: ['not compiled'],
    functions: [
      'limit_sweep',
      'sample_sweep',
      'job_levels',
      'job_ready_sample',
      'job_lost',
      'job_re_enter',
      'lane_faults',
      'schedule_unaccounted',
    ],
  },
  {
    traits: ['not compiled', 'one plan'],
    functions: ['sample_names', 'term_end'],
  },
  {
    traits: ['not compiled', 'by index'],
    functions: [
      'instance_of_session',
      'note_lost_instances',
      'job_sweep_keys',
      'schedule_record_gap',
      'schedule_make_room',
      'schedule_settle',
      'schedule_start_runs',
      'schedule_declare',
      'schedule_change',
      'schedule_request_run',
      'schedule_sweep',
      'schedule_sweep_one',
      'schedule_sweep_stored',
      'schedule_store',
      'schedule_drop',
    ],
  },
  {
    traits: ['not compiled', 'by index', 'one plan'],
    functions: [
      'limit_remove_dead',
      'limit_grant_next',
      'limit_grant_waiting',
      'limit_repair',
      'limit_reset',
      'limit_check_waits',
      'limit_decide_one',
      'rate_decide',
      'rate_decide_one',
      'schedule_states',
    ],
  },
  {
    traits: ['not compiled', 'by index', 'few rows'],
    functions: [
      'job_free_keys',
      'job_enqueue_unique',
      'job_end',
      'job_claim_keyed',
      'job_claim_others',
      'job_lock_waiting',
      'job_cancel',
      'job_take_over',
      'job_run_again',
      'job_retry',
      'schedule_claim',
      'schedule_recover',
      'schedule_record_ends',
    ],
  },
  {
    traits: ['not compiled', 'by index', 'few rows', 'one plan'],
    functions: [
      'limit_decide',
      'job_make_ready',
      'job_admit',
      'job_delete_claims',
      'job_cancel_dependents',
      'job_release_dependents',
      'schedule_look',
      'schedule_poll',
      'schedule_enqueue',
      'schedule_enqueue_waiting',
      'schedule_settle_stored',
      'schedule_stored_due_ms',
      'schedule_tick_stored',
    ],
  },
  {
    traits: ['not compiled', 'by index', 'few rows', 'stops early'],
    functions: ['job_maintain'],
  },
  {
    traits: ['not compiled', 'by index', 'few rows', 'stops early', 'one plan'],
    functions: ['lane_open', 'lane_admit', 'lane_fill', 'lane_enter', 'lane_reserve', 'job_run_follow_ups', 'job_look'],
  },
  {
    traits: ['not compiled', 'by index', 'stops early', 'one plan'],
    functions: ['job_claim', 'job_done'],
  },
  {
    // A call can look up thousands of ids or a single id. Lateral subqueries read the tables, and PostgreSQL always runs them as nested
    // loops.
    traits: ['not compiled', 'by index', 'stops early', 'large batch', 'by hash'],
    functions: ['job_find'],
  },
  {
    // These functions process all jobs in a batch.
    traits: ['not compiled', 'by index', 'stops early', 'large batch', 'by hash', 'one plan'],
    functions: ['job_note_ends', 'job_wait_for_dependencies'],
  },
]

export const plannedFunctions = profiles.flatMap(({ functions }) => functions)

/** Returns one `alter function` statement for each given function that has planner settings. */
export function plannerStatements(functions: ReadonlySet<string>): string[] {
  return profiles.flatMap((profile) =>
    profile.functions
      .filter((name) => functions.has(name))
      .map((name) => {
        const settings = profile.traits.flatMap((trait) => traits[trait])
        return `alter function holdfast.${name} ${settings.map((setting) => `set ${setting}`).join(' ')};`
      }),
  )
}
