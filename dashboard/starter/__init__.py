"""What `agency new` begins a project with: templates, in which `{name}` is the project's."""
