import { billing } from './billing.js'
import { books } from './books.js'
import { cities } from './cities.js'
import type { DepartmentContext } from './department.js'
import { exports } from './exports.js'
import { onboarding } from './onboarding.js'
import { payments } from './payments.js'
import { rates } from './rates.js'
import { reports } from './reports.js'
import { search } from './search.js'

export { cityNames } from './cities.js'
export type { CompanyContext, DepartmentContext } from './department.js'
export { departmentsWithout } from './without.js'

/** All departments. Each instance runs all of them, and Holdfast coordinates the instances. */
export const departments: readonly ((context: DepartmentContext) => void)[] = [
  reports,
  billing,
  onboarding,
  payments,
  exports,
  cities,
  search,
  books,
  rates,
]
