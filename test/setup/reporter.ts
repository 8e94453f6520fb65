import type { Reporter, SerializedError, TestModule } from 'vitest/node'

/** Maximum number of stack lines of an uncaught error. */
const maxStackLines = 4

/** Repeats all failures briefly at the very end of the output, because often only the end of a long log is kept. */
export default class FailureReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], uncaught: readonly SerializedError[]): void {
    for (const module of modules) {
      const { relativeModuleId: file } = module
      const suites = [module, ...module.children.allSuites()]
      for (const error of suites.flatMap((suite) => suite.errors()))
        console.error(`Failed: ${file}: ${firstLine(error)}`)
      for (const test of module.children.allTests('failed')) {
        const errors = test.result().errors ?? []
        console.error([`Failed: ${file} > ${test.fullName}`, ...errors.map(firstLine)].join('\n  '))
      }
    }
    // A process that died without a word takes its files with it: nothing else names them.
    const unfinished = modules.filter((module) => ['pending', 'queued'].includes(module.state()))
    for (const { relativeModuleId: file } of unfinished) console.error(`Red: ${file}: it did not end`)
    for (const error of uncaught) {
      const stack = (error.stack ?? '').split('\n').filter((line) => line.trimStart().startsWith('at '))
      console.error([`Uncaught: ${error.name}: ${firstLine(error)}`, ...stack.slice(0, maxStackLines)].join('\n'))
    }
  }
}

function firstLine({ message }: { readonly message: string }): string {
  return message.split('\n')[0]!.slice(0, 300)
}
