import Foundation
import LupineSession
import Testing

@testable import Lupine

@Suite struct ObserverListTests {
  private static let name = Notification.Name("lupine.tests.observers")

  private func post(_ object: AnyObject) { NotificationCenter.default.post(name: Self.name, object: object) }

  /// Of a thousand who follow a task each, one is told what becomes of one, and not all of them, and in the order in which they came.
  @Test func whoFollowsATaskHearsOfNoOther() throws {
    let heard = Calls<Int>()
    let session = try Session()
    let request = try Request("http://localhost:1/")
    let tasks = (0..<3).map { _ in session.dataTask(with: request) }
    let general = ObserverList()
    general.observe(Self.name) { _ in heard.note(-1) }
    var lists: [ObserverList] = []
    for (index, task) in tasks.enumerated() {
      let list = ObserverList()
      list.observe(Self.name, of: task.taskIdentifier) { _ in heard.note(index) }
      lists.append(list)
    }
    post(tasks[1])
    #expect(heard.all == [-1, 1])
    post(general)
    #expect(heard.all == [-1, 1, -1])
    lists.removeAll()
    for task in tasks { post(task) }
    #expect(heard.all == [-1, 1, -1, -1, -1, -1])
    withExtendedLifetime(general) {}
  }
}
