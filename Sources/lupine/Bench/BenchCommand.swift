internal import ArgumentParser

struct BenchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "bench", abstract: "Bench.")

  mutating func run() async throws {
    throw CommandFailure(.failure, "not built yet")
  }
}
