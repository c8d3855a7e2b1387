import BenchmarkSupport
import Foundation
import Lupine

// One measured run: COUNT values in JSON, decoded by a manager, over CONNECTIONS connections; prints what it cost this process.
let usage = "ManagerLoop SITE PATH CONNECTIONS COUNT"

struct Greeting: Decodable, Sendable {
  var greeting: String
  var count: Int
}

func run(_ manager: HTTPSessionManager, _ path: String, _ connections: Int, _ count: Int) async throws {
  try await withThrowingTaskGroup(of: Void.self) { group in
    for index in 0..<connections {
      let share = count / connections + (index < count % connections ? 1 : 0)
      group.addTask {
        for _ in 0..<share {
          let value = try await manager.get(path, as: Greeting.self)
          precondition(value.count == value.greeting.utf8.count)
        }
      }
    }
    try await group.waitForAll()
  }
}

runBlocking {
  let arguments = CommandLine.arguments
  guard arguments.count == 5, let connections = Int(arguments[3]), let count = Int(arguments[4]) else { misuse(usage) }
  var configuration = SessionConfiguration()
  configuration.maximumConnectionsPerHost = connections
  let manager = try HTTPSessionManager(baseURL: arguments[1], configuration: configuration)
  try await run(manager, arguments[2], connections, min(count, connections * 4))
  let before = Cost()
  try await run(manager, arguments[2], connections, count)
  let cost = (Cost().cpuMicroseconds - before.cpuMicroseconds) / Double(count)
  printJSON(["requests": Double(count), "cpuMicroseconds": cost])
}
