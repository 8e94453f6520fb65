import { listOf, readOptions, UsageError } from '../base/index.js'
import { checkDefinition } from './define.js'
import type { JobDefinition } from './definition.js'
import { type ParsedOptions, workflowRules } from './enqueue-options.js'
import type { WorkflowBuilder, WorkflowJobOptions } from './workflows.js'

export interface PlannedJob {
  readonly definition: JobDefinition
  readonly input: unknown
  /** Parsed options of the job. `after` contains only jobs that already exist in the database. */
  readonly asked: ParsedOptions & { readonly after: readonly number[] }
  /** Indexes of the jobs in the plan that must end before this job. These indexes are smaller than this job's index. */
  readonly behind: readonly number[]
}

/** Calls the function that builds a workflow, and returns the jobs in the order in which the function added them. */
export function planOf(build: (workflow: WorkflowBuilder) => void): PlannedJob[] {
  const plan: PlannedJob[] = []
  const places = new Map<unknown, number>()
  let isOver = false
  build({
    add: (definition: JobDefinition, input?: unknown, given?: WorkflowJobOptions) => {
      if (isOver)
        throw new UsageError(
          'Expected workflow.add to be called inside the function that builds the workflow, got a call after the function had returned',
        )
      const after: unknown = given?.after ?? []
      const behind: number[] = []
      const isOutsidePlan = (one: unknown) => {
        const place = places.get(one)
        if (place !== undefined) behind.push(place)
        return place === undefined
      }
      // Anything but a list is left to the check of the options, which rejects it.
      const known = listOf(after)?.filter(isOutsidePlan) ?? after
      const asked = readOptions('workflow.add', { ...given, after: known }, workflowRules)
      checkDefinition(definition)
      const part = Object.freeze({ kind: definition.kind })
      places.set(part, plan.length)
      plan.push({ definition, input, asked: { ...asked, after: asked.after! }, behind })
      return part
    },
  })
  isOver = true
  if (plan.length === 0) throw new UsageError('Expected a workflow with at least one job, got no jobs')
  return plan
}
