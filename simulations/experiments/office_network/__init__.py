"""The article's evaluation on the simulated network: its servers, links and sensors, and the two solutions it compares.

composite-event-framework-2004, "Evaluation and Results", Fig. 10 and 12. `setting` has the network and what is varied,
`office_events` the events of the building as they are published, `framework_run` the composite-event framework,
`primitive_run` the solution without it.
"""
