export { type Diagnosis, examine, mend } from './doctor.js'
export {
  counted,
  type Fact,
  type Finding,
  type FindingId,
  findingIds,
  isTrouble,
  type Mend,
  type Severity,
} from './finding.js'
export type { PatientOptions } from './patient.js'
