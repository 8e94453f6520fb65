export { type AreaSummary, type Diagnosis, examine, fix } from './doctor.js'
export type { ExamineOptions } from './doctor-context.js'
export {
  type Fact,
  type Finding,
  type FindingId,
  type Fix,
  formatCount,
  needsAction,
  type Severity,
} from './finding.js'
