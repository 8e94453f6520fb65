import type { Reporter, SerializedError, TestModule } from 'vitest/node'

/** Of the stack of what nobody caught, so many lines. */
const maxPlaces = 4

/** What is red, once more and in few words, as the very end of a run: of a long log often only the end is kept. */
export default class FailureReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], uncaught: readonly SerializedError[]): void {
    for (const module of modules) {
      const { relativeModuleId: file } = module
      const suites = [module, ...module.children.allSuites()]
      for (const error of suites.flatMap((suite) => suite.errors())) console.error(`Red: ${file}: ${firstLine(error)}`)
      for (const test of module.children.allTests('failed')) {
        const errors = test.result().errors ?? []
        console.error([`Red: ${file} > ${test.fullName}`, ...errors.map(firstLine)].join('\n  '))
      }
    }
    // A process that died without a word takes its files with it: nothing else names them.
    const unfinished = modules.filter((module) => ['pending', 'queued'].includes(module.state()))
    for (const { relativeModuleId: file } of unfinished) console.error(`Red: ${file}: it did not end`)
    for (const error of uncaught) {
      const places = (error.stack ?? '').split('\n').filter((line) => line.trimStart().startsWith('at '))
      console.error([`Nobody caught: ${error.name}: ${firstLine(error)}`, ...places.slice(0, maxPlaces)].join('\n'))
    }
  }
}

function firstLine({ message }: { readonly message: string }): string {
  return message.split('\n')[0]!.slice(0, 300)
}
